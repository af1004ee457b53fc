# reassembly
