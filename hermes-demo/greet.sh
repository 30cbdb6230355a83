echo 'Hello from the demo.'
echo 'See you soon.'
