"""Between the messages of the API and the domain's values. What comes in here was validated before."""
