"""The nouns and rules of agent memory: frozen values and pure functions, standard library only."""
