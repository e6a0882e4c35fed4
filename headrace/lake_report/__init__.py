"""One HTML page of a lake, made from names, footers and the unified table.

- `facts`: what there is to say of each product;
- `drawing`: strips and charts as SVG;
- `page`: the page, with everything in it;
- `page_file`: collects, draws and writes it to a file.
"""
