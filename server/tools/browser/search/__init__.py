"""Where the browser searches: web search services, SearXNG, and folders of documents."""
