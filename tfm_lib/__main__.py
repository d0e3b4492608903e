from tfm_lib.commands.cli import main

main()
