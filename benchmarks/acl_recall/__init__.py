"""What permissions cost a caller on every leg: recall, order, scores and time, under each way of applying them."""
