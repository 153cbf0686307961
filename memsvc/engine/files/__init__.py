"""Files: taking them in, giving them out, and tidying up after them."""
