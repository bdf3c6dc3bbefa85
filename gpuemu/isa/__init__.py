"""The instruction set: opcodes and their rows, registers, matrix fragments. This room has text and numbers, but no
times.
"""
