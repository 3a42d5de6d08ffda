"""An attacker inside or beside the sandbox; every test is named after the attack."""
