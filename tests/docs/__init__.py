"""Every command, snippet and table of the documentation, run or validated."""
