"""Plans that let the guests of one host reach 169.254.169.254 and identify them.

It has no side effects, like `fleet`: from a plan, it makes text for `nft` and arguments
for `ip`. The command line runs these programs.
"""
