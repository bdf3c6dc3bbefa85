"""The way in from machine code: compile, read the cubin, disassemble, execute.

    tools        the compiler and the disassembler
    image        the file: kernels, constants, variables, lines of the source
    machine      CTAs, control flow, memory and its spaces, recording
    numbers      IEEE arithmetic of all lanes
    semantics    what each instruction does

`launch.execute_launch` is the whole of it.
"""
