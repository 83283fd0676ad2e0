"""What the comparisons share: inputs, the rotation as PyTorch programs write it, and models for ONNX Runtime and OpenVINO."""

import importlib

import numpy
import torch


def optional(name):
    """A module, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


onnxruntime, onnx, openvino = optional("onnxruntime"), optional("onnx"), optional("openvino")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOLERANCE = {"float32": 2e-5, "bfloat16": 2e-2}  # of the largest number: what rounding explains, not which side is right


def missing():
    """What is left out here, and why, in a sentence each."""
    for name, module in (("ONNX Runtime", onnxruntime and onnx), ("OpenVINO", openvino)):
        if not module:
            yield f"{name} is not installed, and left out"
    yield "ggml is left out: llama-cpp-python has no function that runs one of its operators"


def numbers(dtype, seed, **shapes):
    """Normal float32 numbers that `dtype` has, too, by name."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator).to(DTYPES[dtype]).float().numpy() for name, shape in shapes.items()}


def tensors(inputs, dtype):
    return {name: torch.from_numpy(array.copy())[None].to(DTYPES[dtype]) for name, array in inputs.items()}


def angles(length, width, first=0):
    inv_freq = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(first, first + length, dtype=torch.float64)[:, None] * inv_freq


def table(length, width, dtype, first=0):
    """Cosines and sines as transformers keeps them: both halves, in the dtype of the model."""
    whole = torch.cat([angles(length, width, first)] * 2, dim=-1)
    return whole.cos().to(DTYPES[dtype]), whole.sin().to(DTYPES[dtype])


def turned(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def ort_session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def ort_model(nodes, inputs, outputs, opset=23):
    """`inputs` and `outputs`: (name, shape, numpy type)."""
    def info(name, shape, kind):
        return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(numpy.dtype(kind)), shape)

    graph = onnx.helper.make_graph(nodes, "case", [info(*i) for i in inputs], [info(*o) for o in outputs])
    opsets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def ov_request(model, threads, precision):
    """A call of a compiled model that gives its first result."""
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": precision}
    return openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
