"""How sure the order of `gpuemu rank` is: measured spaces, the model of errors, and its score."""
