"""Many runs or many layouts: the search for a layout, sweeps over hardware values."""
