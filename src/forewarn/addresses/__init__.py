"""How guests of one host reach 169.254.169.254, and are known by where they are.

Pure, like `fleet`: a plan is values, and what comes out is text for `nft` and
words for `ip`. Who runs them, and with which right, is the command line's work.
"""
