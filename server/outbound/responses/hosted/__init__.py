"""The output items of hosted calls in the Responses API: a module for each type of item."""
