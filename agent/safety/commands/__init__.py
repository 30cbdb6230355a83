"""What a shell command would do, judged part by part."""
