"""What a branch did, in forms that other people and programs take: a patch for git, a page for a browser."""
