# framer
