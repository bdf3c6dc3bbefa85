"""`python -m gpuemu` is the `gpuemu` command."""

from gpuemu.cli import main

main()
