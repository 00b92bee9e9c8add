"""Everything that is read or written: reports, scripts that show a finding, files of cases and answers."""
