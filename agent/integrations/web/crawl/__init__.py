"""Crawling of a site: slowly, within limits, with the pages saved to disk."""
