"""The verifier's answers to prompts: where prompts come from, how they are asked, what is kept, and how that is checked."""
