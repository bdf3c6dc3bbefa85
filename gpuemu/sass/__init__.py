"""The way in from machine code: compile, read the cubin, disassemble, execute.

    toolchain, nvrtc      the compiler and the disassembler
    elf, cubin            the file: kernels, constants, variables (nv_info, line_table, symbol_names)
    disassembly           instructions with control words

Needs the extra: pip install "gpuemu-sm[sass]".
"""
