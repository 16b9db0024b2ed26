"""The handbook: what each method does and costs, from its own file and a short measurement."""
