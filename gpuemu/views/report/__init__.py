"""The report: one page for a browser that holds a whole run and fetches nothing."""
