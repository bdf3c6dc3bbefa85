"""The validation suite: measures a GPU, fits an architecture file to it, scores the emulator against it.

    python -m validation measure      # on a machine with an NVIDIA GPU; needs CuPy and NumPy only
    python -m validation fit --gpu h200 --base configs/sm_90.yaml -o fitted.yaml
    python -m validation score --gpu h200 --held-out
    python -m validation report --gpu h200
    python -m validation grids        # whole grids of an H100, estimated

`validation/README.md` has the whole story. What runs on the rented machine (build, measure, profile, the
corpus, and `sequences run`) imports neither gpuemu nor anything but the standard library, NumPy and CuPy.
"""
