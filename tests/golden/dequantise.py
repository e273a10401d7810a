#!/usr/bin/env python3
"""Writes a copy of a model whose weights are the same values in F32, for references without rounding.

usage: dequantise.py MODEL.gguf OUT.gguf      (needs the Python package gguf)
"""
import sys

import numpy
from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize


def main() -> None:
    reader = GGUFReader(sys.argv[1])
    writer = GGUFWriter(sys.argv[2], reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        element = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=element)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
