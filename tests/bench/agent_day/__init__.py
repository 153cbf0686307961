"""An agent's day: what the service keeps of scripted conversations, and what it hands back."""
