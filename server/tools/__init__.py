"""Tools that the server runs for the model, and the interface of such tools."""
