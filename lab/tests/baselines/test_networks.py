"""The networks: their sizes, and that features and head are the network."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from decal_lab.baselines import mlp, resnet18, small_conv  # noqa: E402

pytestmark = pytest.mark.torch

IMAGES = {28: (2, 1, 28, 28), 32: (2, 3, 32, 32)}


def size(module):
    return sum(p.numel() for p in module.parameters())


def test_mlp_has_the_layers_of_the_paper():
    layers = [m for m in mlp(5).modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [
        (768, 256),
        (256, 64),
        (64, 16),
        (16, 5),
    ]
    assert size(mlp(5)) == 769 * 256 + 257 * 64 + 65 * 16 + 17 * 5


def test_mlp_without_hidden_layers_is_linear_and_flattens():
    net = mlp(3, inputs=8, hidden=())
    x = torch.randn(4, 2, 4)
    torch.testing.assert_close(net(x), x.reshape(4, 8) @ net.head.weight.T + net.head.bias)


def test_resnet18_is_the_variant_for_small_images():
    net = resnet18(10)
    assert size(net) == 11_173_962
    # The stem keeps the resolution, and three of four stages halve it: 32 to 4.
    shapes = []
    for layer in net.body:
        layer.register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape[1:])))
    net.eval()(torch.zeros(IMAGES[32]))
    assert shapes[2] == (64, 32, 32)
    assert shapes[3:11] == [
        (width, side, side)
        for width, side in ((64, 32), (128, 16), (256, 8), (512, 4))
        for _ in range(2)
    ]
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert len([m for m in convolutions if m.kernel_size == (3, 3)]) + 1 == 18  # with the head
    assert resnet18(7, channels=1)(torch.zeros(IMAGES[28])).shape == (2, 7)


def test_a_block_adds_its_shortcut():
    block = resnet18(10).body[3].eval()
    for parameter in block.parameters():
        nn.init.zeros_(parameter)
    x = torch.randn(1, 64, 8, 8)
    torch.testing.assert_close(block(x), x.relu())


@pytest.mark.parametrize("side", [28, 32])
def test_small_conv_takes_both_sizes_of_images(side):
    net = small_conv(10, channels=IMAGES[side][1])
    assert net(torch.zeros(IMAGES[side])).shape == (2, 10)
    rates = [m.p for m in net.modules() if isinstance(m, nn.Dropout)]
    assert rates
    assert set(rates) == {0.25}


def test_small_conv_is_small():
    net = small_conv(10)
    assert sum(p.numel() for p in net.parameters()) == 207_178
    products = []
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(
                lambda layer, _, out: products.append(
                    layer.weight.numel() * out[0].numel() // len(layer.weight)
                )
            )
    net(torch.zeros(1, 1, 28, 28))
    assert sum(products) == 506_176


@pytest.mark.parametrize(
    ("build", "shape", "features"),
    [
        (lambda: mlp(4), (2, 768), 16),
        (lambda: small_conv(4), IMAGES[28], 128),
        (lambda: resnet18(4), IMAGES[32], 512),
    ],
    ids=["mlp", "small_conv", "resnet18"],
)
def test_logits_are_the_head_of_the_features(build, shape, features):
    net, x = build().eval(), torch.randn(shape)
    assert isinstance(net.head, nn.Linear)
    assert net.features(x).shape == (2, features)
    torch.testing.assert_close(net.head(net.features(x)), net(x))


def test_wrong_sizes_are_refused_by_name():
    with pytest.raises(ValueError, match="classes must be a whole number, at least 2: got 1"):
        mlp(1)
    with pytest.raises(ValueError, match=r"hidden\[1\] must be a whole number, at least 1: got 0"):
        mlp(3, hidden=(4, 0))
    with pytest.raises(ValueError, match="channels must be a whole number"):
        resnet18(3, channels=0)
    with pytest.raises(ValueError, match="dropout must lie between 0 and 1: got 1.5"):
        small_conv(3, dropout=1.5)
