"unheard_of.op"() : () -> ()
