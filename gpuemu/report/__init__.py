"""Views of results: text for the terminal, JSON, HTML, Perfetto. They read results and never run anything."""
