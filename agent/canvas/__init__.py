"""What an agent shows beside the conversation: documents, where they are kept, how they are enclosed."""
