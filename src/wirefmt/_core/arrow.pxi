# arrow
