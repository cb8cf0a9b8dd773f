"""The OpenAPI document, which takes a second to make: once for all tests of a process."""

from server.openapi.document import openapi

DOCUMENT = openapi()
