// any text
