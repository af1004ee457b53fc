# placeholder until the two commands are written
