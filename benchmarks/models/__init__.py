"""Networks that are compared whole, as ONNX models with random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx

from models import classifiers, dense

#: A model by name: what makes it for a batch size, of one input and one output.
MODELS: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "squeezenet": classifiers.squeezenet,
    "densenet121": classifiers.densenet121,
    "efficientnet_b0": classifiers.efficientnet_b0,
    "convnext_t": classifiers.convnext_t,
    "regnety_1.6gf": classifiers.regnety_16gf,
    "yolo_640": dense.yolo,
    "diffusion_unet": dense.diffusion_unet,
    "unet_3d": dense.unet_3d,
    "wavenet": dense.wavenet,
}
