"""What tools/get_data makes: a module for each source of text or images."""
