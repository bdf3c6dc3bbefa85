"""The HTML report: one file with a whole run, which fetches nothing."""
