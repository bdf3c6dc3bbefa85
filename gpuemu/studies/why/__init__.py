"""Why a kernel takes its time: what each cause costs, by running without it."""
