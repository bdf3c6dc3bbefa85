"""The instruction set: opcodes and their rows, registers, fragments of matrices. Text and numbers, no times."""
