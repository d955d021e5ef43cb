"""Files: written whole or not at all (`atomic`), as bytes (`container`), of objects (`codec`), of a fit (`fit_file`).

`old_names` has what earlier versions called things.
"""
