"""The playground: its files, and the HTML that Markdown, code and TeX of an answer become."""
