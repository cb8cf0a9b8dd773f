"""Backends for engines that run as separate servers, over HTTP."""
