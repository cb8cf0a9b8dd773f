"""The API's description: an OpenAPI document and a page that shows it."""
