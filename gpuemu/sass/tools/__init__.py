"""The compiler and the disassembler."""
