"""Made-up anatomy and what can be found in it: who is drawn, without the scanner's part."""
