"""Engines that run as servers of their own and are reached over HTTP."""
